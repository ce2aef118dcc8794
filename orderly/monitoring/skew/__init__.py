"""How unevenly messages flow: into the queues of a topic, over its keys, and what would change it.

Pure: counts go in, figures and sentences come out. `collecting.topic_sample` reads the counts.
"""
