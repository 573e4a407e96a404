"""One command line of mqadmin's for both tools: what is run, how its facts are found, and tables of such lines."""
