"""Train many recipes on a Ray cluster: `python -m training sweep`.

Read in this order: `plan` (what is done, and what has to be done before it), `schedule` (what is
next), `storage` (where everything is kept), `worker` (how a process does one job after another),
`cluster` (the processes, with Ray), `table` (what is shown meanwhile), `commands`.
"""
