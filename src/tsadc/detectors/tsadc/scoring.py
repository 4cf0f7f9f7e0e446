"""Module 3, scoring: what the two modules say of an observation, cell by cell, and how it becomes one number.

    name                   paper   meaning
    imputation             s1      how badly hidden cells are told from the rest of the observation
    reconstruction         s2      how badly the observation is reconstructed from its dependencies

The paper pools by RMSE and adds `0.01 s1 + 1.2 s2`. The default keeps extremes, puts both on one scale first, and lets an
observation score as its worst step, so that the timeline and the verdict cannot disagree.
"""
