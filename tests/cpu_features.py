"""Print the CPU features that NumPy uses here and can do without.

For ``NPY_DISABLE_CPU_FEATURES``, so that tests run as on a poorer processor. The names
differ between versions of NumPy, and disabling one that is not here is a warning.
"""

import numpy as np

features = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])

if __name__ == "__main__":
    print(" ".join(features))
