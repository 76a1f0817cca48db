"""Published statements, checked against campaigns."""
