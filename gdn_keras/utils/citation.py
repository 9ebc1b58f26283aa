"""Citation of the paper."""

CITATION = (
    "A. Perzanowski and T. Lindeberg, Scale generalisation properties of extended "
    "scale-covariant and scale-invariant Gaussian derivative networks on image datasets with "
    "spatial scaling variations, Journal of Mathematical Imaging and Vision 67:29, 2025 "
    "(arXiv:2409.11140)."
)
BIBTEX = """@article{perzanowski2025scale,
  title={Scale generalisation properties of extended scale-covariant and scale-invariant
         {G}aussian derivative networks on image datasets with spatial scaling variations},
  author={Perzanowski, Andrzej and Lindeberg, Tony},
  journal={Journal of Mathematical Imaging and Vision},
  volume={67},
  number={29},
  year={2025}
}"""
