"""The Chinese words of what the rest of proctor says in English: results, costs, decisions, kinds of tests."""

# ruff: noqa: RUF001 - the punctuation is Chinese

from __future__ import annotations

from collections.abc import Mapping

PHRASES: Mapping[str, str] = {
    "early exit, so pass@1 would be biased": "提前结束，因此 pass@1 会有偏差",
    "tasks solved at least once": "个任务至少解决一次",
    "counted as not passed": "按未通过计",
    "none may be missing": "不允许缺失",
    "attempts without price": "次尝试没有价格",
    "attempt without price": "次尝试没有价格",
    "calls without price": "次调用没有价格",
    "call without price": "次调用没有价格",
    "not dispatched": "未派发",
    "cost unknown": "费用未知",
    "not decided": "未定",
    "incomplete": "不完整",
    "cancelled": "已取消",
    "left out": "不计入",
    "no score": "没有得分",
    "at least": "至少",
    "no rate": "没有通过率",
    "errored": "出错",
    "running": "运行中",
    "skipped": "跳过",
    "passed": "通过",
    "queued": "排队中",
    "under": "低于",
    "plus": "另有",
}
"""What headlines and costs consist of besides numbers; longer ones stand before what is a part of them."""

SEVERITIES: Mapping[str, str] = {"FATAL": "致命", "ERROR": "错误", "WARNING": "警告"}

DECISIONS: Mapping[str, str] = {
    "execute": "执行",
    "reuse": "复用",
    "grade only": "仅评分",
    "accept": "接受",
    "not dispatched": "未派发",
}
REASONS: Mapping[str, str] = {
    "new": "新的",
    "identity equal": "身份相同",
    "failed": "未通过",
    "retry pattern matches": "符合重试模式",
    "limit lowered": "限制已降低",
    "gradable": "可以评分",
    "checkpoint resume off": "未启用从检查点继续",
    "saved data damaged": "保存的数据已损坏",
    "previous errored": "上一次出错",
    "previous skipped": "上一次跳过",
    "previous cancelled": "上一次已取消",
    "previous cut off": "上一次被中断",
    "previous run deleted": "上一次运行已删除",
}
"""Of what was planned; others are shown as they are."""

TESTS: Mapping[str, str] = {
    "McNemar's, exact": "McNemar 精确检验",
    "permutation of signs, exact": "符号置换精确检验",
    "Student's, paired by task": "按任务配对的 Student t 检验",
}

CHINESE: Mapping[str, str] = {**PHRASES, **SEVERITIES, **DECISIONS, **REASONS, **TESTS}
