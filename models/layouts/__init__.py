"""The page layout of a hybrid model: what is asked (LayoutQuestion) and answered (LayoutAnswer)."""

from kvplan.models.layouts.bucket import Bucket
from kvplan.models.layouts.chosen import LayoutAnswer
from kvplan.models.layouts.page_layout import PageLayout
from kvplan.models.layouts.question import LayoutQuestion

__all__ = ["Bucket", "LayoutAnswer", "LayoutQuestion", "PageLayout"]
