"""Figures against their peers, as ratios in one run. A bench is no test: nothing here fails on a slow machine."""
