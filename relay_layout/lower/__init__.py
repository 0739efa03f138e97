"""From a converted module to scheduled loops: our computes, fusion, our schedules."""
