"""One colour for each contestant, in all plots, and the order in which they are shown."""

from bench.result import LIMIT, OURS, RIVAL

COLORS = {
    LIMIT: "#8a93a0",
    OURS: "#2f7de1",
    RIVAL: "#d9822b",
    "valkey-glide": "#2f9e77",
    "pottery": "#b65fb5",
    "python-redis-lock": "#b5543a",
}
