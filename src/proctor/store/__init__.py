"""Results on disk: every path of a run, the journal that is the truth about it, and the files derived from it.

`layout` knows the paths, `codec` turns events into lines and back, `journal` writes them, `reader` reads them,
`results` and `plan_file` write the files that people read. Nothing is imported here: each module is imported by name.

For programs of your own: `reader.read_journal`, `plan_file.read_plan`, and `results.rebuild_results`, which writes
every `result.json` of a run again from its journal.
"""
