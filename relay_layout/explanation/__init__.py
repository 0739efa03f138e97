"""What was chosen for every operator, what else there was, and what blocked a conversion.

``transform`` reports the reasons (:mod:`.reasons`), ``explain`` works out the rest
(:mod:`relay_layout.explainer`).
"""
