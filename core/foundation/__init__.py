"""What every other layer stands on: settings, errors, events, late imports, offset allocation.

Nothing here knows about programs, devices or compilers, and nothing here imports a third-party
package.
"""
