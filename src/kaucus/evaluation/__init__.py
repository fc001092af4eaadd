"""Predictions in; metrics, timings, tables and figures out."""
