"""From a hopping query to its plan: where differences stand, in which order to join, the mode of every operator.

query ──▶ graph ──▶ push differences down ──▶ every legal position ──▶ join order with modes ──▶ plan
                    (the heuristic stops here)
"""
