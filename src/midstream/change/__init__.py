"""Ways from a running query to another: control elements, versions and their lives, one method a file."""
