"""The playground: a page in the browser where points, parameters and the fitted machine follow the mouse (`maxmargin play`).

    server   the web server: the address that it listens on, who may ask, and which address answers what
    task     a request of the page, checked: points, machine, parameters, grid
    answer   fit the machine of a task and encode what the page draws, as JSON and float32
    sets     the classic data sets, and CSV files
    script   the Python lines that fit the same machine
    static/  the page: HTML, CSS and ES modules, without a build step

The server keeps no state: each request carries all points and parameters, and its work is bounded (`task.MOST_POINTS`,
`task.MOST_NODES`, `task.MAX_SECONDS`). It listens on 127.0.0.1 only, and its address contains a random token. Starlette and
uvicorn are an extra (`pip install maxmargin[play]`).

May not enter: solvers, kernels, numerics. What the page shows is read from public attributes of a fitted estimator.
"""
