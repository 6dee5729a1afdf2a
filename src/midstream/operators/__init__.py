"""Physical steps and the states they keep: operators describe, states remember, kernels compute."""
