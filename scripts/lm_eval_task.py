#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a multiple-choice task of lm-evaluation-harness as questions for `hearth eval --task`.

  pip install lm_eval
  scripts/lm_eval_task.py arc_easy arc_easy.jsonl --shots 5
  hearth eval --checkpoint runs/quickstart --task arc_easy.jsonl

The solved examples of --shots become part of each question, so `hearth eval` needs no --shots of its own.
"""
import argparse
import json
import sys


def questions(task):
    """Yields the query, the choices and the number of the right one for each document of the task's split."""
    by_document = {}
    for instance in task.instances:
        by_document.setdefault(instance.doc_id, []).append(instance)
    delimiter = task.config.target_delimiter
    for document in sorted(by_document):
        instances = sorted(by_document[document], key=lambda instance: instance.idx)
        contexts = {instance.args[0] for instance in instances}
        texts = [instance.args[1] for instance in instances]
        if len(contexts) != 1 or not all(text.startswith(delimiter) for text in texts):
            sys.exit(f"error: {task.config.task} has another text before each choice; hearth eval has no such tasks")
        gold = task.doc_to_target(instances[0].doc)
        choices = [text[len(delimiter):] for text in texts]
        if isinstance(gold, str):
            gold = choices.index(gold) if gold in choices else -1
        if not isinstance(gold, int) or not 0 <= gold < len(choices):
            sys.exit(f"error: document {document} of {task.config.task} has no single right choice: {gold!r}")
        yield contexts.pop(), choices, gold


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", help="its name in lm-evaluation-harness, of the type multiple_choice")
    parser.add_argument("out", help="file of questions, .jsonl")
    parser.add_argument("--shots", type=int, help="solved examples before each question; default: the task's own")
    parser.add_argument("--limit", type=int, help="only the first questions")
    parser.add_argument("--include", help="folder with more tasks, as lm_eval's --include_path")
    given = parser.parse_args()
    from lm_eval.tasks import TaskManager, get_task_dict

    found = get_task_dict([given.task], TaskManager(include_path=given.include))
    task = found.get(given.task)
    if task is None or task.OUTPUT_TYPE != "multiple_choice":
        sys.exit(f"error: {given.task} is no single task of the type multiple_choice")
    if given.shots is not None:
        task.set_config(key="num_fewshot", value=given.shots)
    task.set_fewshot_seed(1234)  # as lm_eval's own default
    task.build_all_requests(limit=given.limit)
    count = 0
    with open(given.out, "w", encoding="utf-8") as file:
        for query, choices, gold in questions(task):
            file.write(json.dumps({"query": query, "choices": choices, "gold": gold}, ensure_ascii=False) + "\n")
            count += 1
    delimiter = task.config.target_delimiter
    option = "" if delimiter == " " else f" --delimiter {json.dumps(delimiter)}"
    print(f"wrote {count} questions; evaluate them with: hearth eval --checkpoint DIR --task {given.out}{option}")


if __name__ == "__main__":
    main()
