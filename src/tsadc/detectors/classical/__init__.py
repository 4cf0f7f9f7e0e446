"""Detectors without a network, one small file each; `base.py` holds what several of them share.

To add one, write a class that derives from `tsadc.detectors.base.Detector`, from `WindowDetector` if it judges
features of the whole observation, or from `SlidingDetector` if it judges windows slid over it, and register it in
`detectors/__init__.py`.
"""
