"""An order service: HTTP in front, ordered messages behind, one database."""
