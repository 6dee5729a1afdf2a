"""Planning while a query runs: statistics of its windows and operators, and the plans made from them."""
