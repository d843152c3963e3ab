"""What is made of records, and of records alone: figures and the table of claims."""
