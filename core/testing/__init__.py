"""For tests of core and of plugins: the pytest plugin, the conformance kit, strategies.

Nothing below this layer imports it, and it needs the extra ``testing``.
"""
