"""Do all producers of a topic put keys into the same queues, and by which selector?

Pure: what a sample of messages shows (`sightings`) goes in, what explains it (`explaining`) and
what it means (`findings`) come out. `collecting.placement_sample` reads the sample.
"""
