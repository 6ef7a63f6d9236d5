"""ND0: can the report be trusted?"""
