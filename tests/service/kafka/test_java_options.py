"""How Java is told to start: quickly, and with its best compiler for what runs often."""

from __future__ import annotations

import subprocess

from service.kafka.java import COMPILED_LATE, COMPILED_ONCE, LATE_BEST, Java


def flags(java: Java, *options: str) -> dict[str, str]:
    command = [str(java.path), *options, "-XX:+PrintFlagsFinal", "-version"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {words[1]: words[3] for line in lines if len(words := line.split()) > 3}


def test_java_takes_every_option_and_waits_as_many_times_longer(java: Java):
    own, ours = flags(java), flags(java, *COMPILED_LATE)
    named = [option.removeprefix("-XX:").partition("=")[0] for option in COMPILED_LATE]
    assert all(int(ours[name]) == LATE_BEST * int(own[name]) for name in named)


def test_a_short_program_has_one_compiler_and_one_thread_for_garbage(java: Java):
    once = flags(java, *COMPILED_ONCE)
    assert (once["TieredStopAtLevel"], once["UseSerialGC"]) == ("1", "true")
