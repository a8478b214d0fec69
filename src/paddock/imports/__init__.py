"""Installs that exist without Paddock, as the source of an agent's state.

``source`` reads what a person typed after ``--from``. The other modules run on the machine that has the install, with
whatever Python is there, and without Paddock: ``look`` finds the folder of the install and what uses it, ``retire``
stops that and keeps it from starting, ``give`` sends the folder as a stream. None of them changes anything in the
folder. The install is not Paddock's: names, links, sizes and unit files are hostile.
"""
