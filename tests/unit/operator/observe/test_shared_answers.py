"""Answers by namespace: shared by the pools of a pass, and dropped once nothing reads the namespace."""

from penstock_operator.observe.shared_answers import SharedAnswers


async def test_an_answer_of_a_namespace_that_is_read_no_more_is_dropped() -> None:
    answers = SharedAnswers[str](1.0)

    async def read() -> str:
        return "answer"

    for second in range(100):
        assert await answers.of(f"team-{second}", float(second), read) == "answer"
        assert await answers.of("team-a", float(second), read) == "answer"
        assert len(answers) == 2
