"""Results on disk: every path of a run, the journal that is the truth about it, and the files derived from it.

`layout` knows the paths, `codec` turns events into lines and back, `journal` writes them, `reader` reads them,
`results` and `plan_file` write the files that people read. Nothing is imported here: each module is imported by name.
"""
