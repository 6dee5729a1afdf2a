"""The distributed join: streams that arrive at different sites, joined where it is cheapest, replanned and moved."""
