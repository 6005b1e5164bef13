"""Stacks of several programs, joined."""

from __future__ import annotations

from service.profile.stacks import SeenStacks, collapsed, joined

JAVA = """\
[Executor task launch worker for task 0.0 in stage 3.0 (TID 3) tid=71];java/lang/Thread.run;org/apache/spark/Task.run 5
[Executor task launch worker for task 1.0 in stage 9.0 (TID 9) tid=72];java/lang/Thread.run;org/apache/spark/Task.run 2
[stream execution thread for tidings [id = 0f5cf2ff-8a2b-4a4b-a1c2-1b2c3d4e5f60, runId = 1] tid=80];plan 1
[GC Thread#1 tid=12];[libjvm.so] 4
"""
PYTHON = """\
process 26937:"python -m a.daemon";process 26941:"python -m a.daemon";main (worker.py:1);run (a.py:2) 7
process 26937:"python -m a.daemon";process 26942:"python -m a.daemon";main (worker.py:1);run (a.py:2) 1
"""


def test_each_program_is_a_root_and_threads_and_processes_of_a_kind_are_one():
    assert joined([SeenStacks("java spark", JAVA), SeenStacks("python worker", PYTHON)], 1) == {
        "java spark;[Executor task launch worker];java/lang/Thread.run;org/apache/spark/Task.run": 7,
        "java spark;[stream execution thread for tidings];plan": 1,
        "java spark;[GC Thread];[libjvm.so]": 4,
        "python worker;main (worker.py:1);run (a.py:2)": 8,
    }


def test_a_process_at_rest_adds_nothing():
    assert joined([SeenStacks("python driver", "", 20), SeenStacks("java kafka", "\n")], 10) == {}


def test_the_lines_of_a_long_command_are_no_stacks():
    text = 'process 1:"python -c import time\nwhile True: pass";work (x.py:1) 3\n'
    assert list(joined([SeenStacks("python worker", text)], 1).values()) == [3]


def test_what_is_joined_is_written_as_it_was_read():
    stacks = {"java spark;a;b": 2, "java kafka;c": 1}
    assert collapsed(stacks) == "java kafka;c 1\njava spark;a;b 2\n"
    assert joined([SeenStacks("all", collapsed(stacks))], 1) == {"all;java kafka;c": 1, "all;java spark;a;b": 2}


def test_a_program_is_as_wide_as_what_it_used():
    """On a busy machine py-spy takes threads that wait for a processor for busy."""
    text = "wait 90\nwork 10\n"
    unknown, less, more = SeenStacks("a", text), SeenStacks("b", text, 200), SeenStacks("c", text, 100_000)
    assert list(joined([unknown, less, more], 10).values()) == [900, 100, 180, 20, 900, 100]
