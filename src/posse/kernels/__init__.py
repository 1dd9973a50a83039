"""The compiled hot loops, and nothing else.

Everything here takes arrays, checks nothing and allocates nothing in a step: callers check first and bring the
buffers. Three rules keep decisions equal on every machine and still fast:

* no ``fastmath``: sums are added in the order that the source says;
* inner loops run along a row and update many sums at once, so the compiler can use vector instructions without
  changing the order of any single sum;
* no random generator: draws come in as arrays.
"""
