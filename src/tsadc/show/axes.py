from tsadc.show.charts import Tick as Tick
from tsadc.show.charts import tick_labels as plain
from tsadc.show.charts import time_ticks as time_ticks
from tsadc.show.charts import value_ticks as value_ticks

__all__ = ["Tick", "plain", "time_ticks", "value_ticks"]
