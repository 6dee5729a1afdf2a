"""Studies of multi-mode hopping: what each mode of an operator, and each plan, costs."""
