"""The arrays that kernels work on and operators keep, by name."""

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.int64]
Matrix = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]
Limbs = npt.NDArray[np.uint64]
"""Words of numbers with more than 64 bits."""
Links = npt.NDArray[np.int32]
"""Places in other arrays, such as the heads and links of chains; -1 is none."""
