"""From a query to the plan that answers it. One rule, one file."""
