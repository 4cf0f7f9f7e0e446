from tsadc.show.html import VOID, Html, element, join, name

__all__ = ["VOID", "Html", "element", "join", "name"]
