"""Files, data frames and arrays become Series.

A file:          `files` (arguments -> files) -> `read` (one reader per format) -> `columns`, `times` -> `entities` ->
                 `clock` -> Series
A data frame:    `memory` -> `entities.from_frame`, where it joins the same path
"""
