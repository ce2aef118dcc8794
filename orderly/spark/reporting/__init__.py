"""Reports of jobs: what stands in one (`contents`), and the page made of it (`page`).

Pure: equal contents give equal bytes. The page and the plots need jinja2 and matplotlib.
"""
