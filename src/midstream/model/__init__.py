"""The nouns everyone says: errors, time, types, streams, coverage. Imports no other room."""
