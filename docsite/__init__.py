"""The program that makes the site of docs/: MkDocs' hooks, and what is made from the code."""
