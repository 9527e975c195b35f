"""The tensor programs that can be tuned: the families of DOPpler's Table 2, and two more that
models need. ``catalog`` is the way in; TVM is only loaded where a family makes its TIR."""
