"""What `manage.py makemigrations` writes."""
