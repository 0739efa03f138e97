"""Where layouts are decided: one signature for every operator, at least total cost.

:mod:`.plan` goes from a module and a request to the decision. :mod:`.candidates` are the signatures worth
offering, :mod:`.solver` picks among them: tensors have states (:mod:`.state`, :mod:`.memory`) whose changes
cost (:mod:`.costs`), which makes a problem (:mod:`.problem`). It is reduced (:mod:`.reduction`) and solved as
an integer program (:mod:`.program`), or without proof (:mod:`.heuristic`) where time runs out.
"""
