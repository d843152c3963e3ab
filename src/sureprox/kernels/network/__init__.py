"""The coordinate network of the other learned optimizers, and the step of GO-Math-L2O."""
