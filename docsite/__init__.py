"""The program that makes the site of docs/: MkDocs' hooks, and the parts of pages made from the code."""
