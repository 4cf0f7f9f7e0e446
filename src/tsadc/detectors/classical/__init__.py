"""Detectors without a network, one small file each; `base.py` holds what several of them share.

To add one, write a class that derives from `tsadc.detectors.base.Detector`, or from `WindowDetector` if it judges
features of the whole observation, and register it in `detectors/__init__.py`.
"""
