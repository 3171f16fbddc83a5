"""For tests of proctor and of its plugins: fakes, a scripted model server, seeded simulation of the scheduler.

Import what you need from the modules; this one imports nothing.
"""
