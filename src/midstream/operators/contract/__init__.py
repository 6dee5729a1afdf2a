"""What the engine, migrations and changes may ask of the operators of any query."""
