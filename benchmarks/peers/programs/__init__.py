"""The sides: each module is a program that does one piece of work and prints one line of JSON.

They share `meter` and nothing else, so that each may run in a Python of its own.
"""
